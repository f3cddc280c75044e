"""The image of a simulated node: a real kubelet, its container runtime and a control plane.

Made of programs that Go builds and of Debian packages; no image registry is asked. ``rootfs`` makes Debian's part, ``preload``
the images of the control plane, and ``build`` lists Go's builds and puts all together.
"""
