"""The provider kind itself: what it opens on this machine, and what it leaves behind when it is killed."""
