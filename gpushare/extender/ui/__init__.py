"""The page for people, and what keeps it live."""
