"""The device plugin alone, as a process, over a kubelet that records its calls and makes those that a case wants."""
