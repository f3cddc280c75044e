"""The judge: does a gpushare do what its users rely on? It never imports ``gpushare``.

* ``spec`` the contract, restated from the original's sources: a typo in the product's own must fail here;
* ``builders`` manifests that say only what matters; ``checkers`` pure rules for a recorded history;
* ``scenarios`` end-to-end cases, ``conformance`` one promise per test; ``targets`` what is judged, as data.
"""
