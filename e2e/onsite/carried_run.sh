#!/bin/sh
# Set the checkout up from the wheels beside it, and judge this machine's cards. Needs Python @VERSION@.
set -eu
unset CDPATH
here=$(cd "$(dirname "$0")" && pwd)
work=$(pwd)
python=${PYTHON:-python@VERSION@}
command -v "$python" >/dev/null || { echo "run: $python is not there; the wheels are for Python @VERSION@" >&2; exit 1; }
"$python" -c 'import sys; sys.exit("%d.%d" % sys.version_info[:2] != "@VERSION@")' ||
  { echo "run: $python is not Python @VERSION@, which the wheels are for" >&2; exit 1; }
cd "$here"
if ! test -e ready; then
  echo "setting up $here (once, half a minute)"
  mkdir -p checkout
  tar -x -f checkout.tar -C checkout
  # Some distributions have Python without the pip that venv copies, so the one among the wheels is used.
  "$python" -m venv --without-pip venv
  pip() { PYTHONPATH=$(echo wheels/pip-*.whl) venv/bin/python -m pip --quiet --disable-pip-version-check "$@"; }
  pip install --no-index --find-links wheels --require-hashes --no-deps @LISTS@
  pip install --no-index --no-deps --no-build-isolation --editable checkout --editable checkout/fake_nvml
  touch ready
fi
cd checkout
exec ../venv/bin/python -m e2e machine --report "$work/validation" "$@"
