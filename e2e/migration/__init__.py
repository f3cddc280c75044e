"""From the original's programs to ours and back, program by program, while pods run."""
