# Images of our programs, one target each: extender, device-plugin, device-plugin-simulated, player.
#
#     docker build --target extender --tag gpushare/extender .
#
# BASE is any image with Python 3.11 or newer and glibc, named by its digest: a tag may be another image tomorrow. To renew it, ask a
# registry (`docker buildx imagetools inspect python:3.13-slim`). Packages come from the package index, each file with the hash that
# .ci/constraints has. Where neither a registry nor an index may be reached, `make kind` puts wheels and compiled programs into clusters/kind/program_images/ready and builds on a base that it
# made from Debian packages (clusters/kind/program_images/README.md). Steps run Python, so the base needs no shell.
#
# The stages stand in the order in which they are needed: builders before BuildKit build every stage above the target.
ARG BASE=python:3.13-slim@sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b

# What changes seldom, in a layer of its own: the dependencies, as .ci/constraints/product.txt pins them.
FROM ${BASE} AS dependencies
LABEL gpushare.stage=dependencies
COPY pyproject.toml clusters/kind/program_images/files/install.py /src/
COPY .ci/constraints/product.txt /src/constraints/
COPY clusters/kind/program_images/ready/wheels /src/wheels
RUN ["python3", "/src/install.py", "dependencies", "/src", "/opt/gpushare"]

# The wheel of this checkout, apart: what belongs to the product, and what belongs to simulated cards.
FROM dependencies AS own
LABEL gpushare.stage=own
COPY . /src/checkout
RUN ["/opt/gpushare/bin/python", "/src/install.py", "own", "/src/checkout", "/own"]

FROM ${BASE} AS programs
ARG VERSION=unknown
LABEL gpushare.stage=programs \
      org.opencontainers.image.licenses=Apache-2.0 \
      org.opencontainers.image.vendor="The gpushare authors" \
      org.opencontainers.image.version=${VERSION}
COPY --from=dependencies /opt/gpushare /opt/gpushare
COPY --from=own /own/product /opt/gpushare
# Nothing is written at run time, so that the root may be read-only.
ENV PATH=/opt/gpushare/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1

FROM programs AS extender
LABEL org.opencontainers.image.title="gpushare extender" \
      org.opencontainers.image.description="Chooses the card of a pod that shares one, beside kube-scheduler"
# Of no account: a number alone, so that the kubelet can see that it is not root.
USER 65532:65532
EXPOSE 12345 12346
ENTRYPOINT ["/opt/gpushare/bin/gpushare-extender"]

# Root without capabilities: the kubelet's socket folder is root's. The manifest drops them.
FROM programs AS device-plugin
LABEL org.opencontainers.image.title="gpushare device plugin" \
      org.opencontainers.image.description="Offers the memory of a node's NVIDIA cards to its kubelet"
ENTRYPOINT ["/opt/gpushare/bin/gpushare-device-plugin"]

FROM own AS compiled
LABEL gpushare.stage=compiled
RUN ["/opt/gpushare/bin/python", "/src/install.py", "compiled", "/src/checkout", "/compiled"]

# Cards that do not exist: the image and every path of it say so, and it refuses to start where a real driver is.
FROM device-plugin AS device-plugin-simulated
LABEL org.opencontainers.image.title="gpushare device plugin on SIMULATED cards" \
      org.opencontainers.image.description="For tests: reads simulated cards, and refuses where a real NVIDIA driver is" \
      gpushare.simulated=true
COPY --from=own /own/simulated /opt/simulated-nvml
COPY --from=compiled /compiled/libraries /opt/simulated-nvml/libraries
ENV PATH=/opt/simulated-nvml/bin:/opt/gpushare/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    FAKENVML_LIBRARIES=/opt/simulated-nvml/libraries \
    FAKENVML_STATE=/var/lib/gpushare-simulated/state
ENTRYPOINT ["/opt/simulated-nvml/bin/gpushare-device-plugin-simulated"]

# One static program under the names of the few commands that it knows.
FROM scratch AS player
ARG VERSION=unknown
LABEL org.opencontainers.image.title="gpushare player on SIMULATED cards" \
      org.opencontainers.image.description="For tests: stands for a program that uses a card" \
      org.opencontainers.image.licenses=Apache-2.0 \
      org.opencontainers.image.version=${VERSION} \
      gpushare.simulated=true
COPY --from=compiled /compiled/player /
ENV PATH=/bin
ENTRYPOINT ["/bin/player"]
