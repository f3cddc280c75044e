"""Load and latency: what the extender answers, how fast. May use the harness; is no part of the product."""
