"""Two extenders and a scheduler, killed, paused and cut from the API server at random while cards are full."""
