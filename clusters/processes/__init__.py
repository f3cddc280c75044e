"""Programs that a cluster is made of: started, watched, logged, ended; and the builds that make them."""
