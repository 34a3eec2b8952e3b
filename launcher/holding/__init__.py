"""Hold an app: the state machine that judges its events, and the loop that carries out its decisions."""
