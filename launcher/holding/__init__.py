"""Hold an app: the machine that judges its events, and the loop that carries out its decisions."""
