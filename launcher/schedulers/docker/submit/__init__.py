"""From a taken app id to running containers, or to nothing at all."""
