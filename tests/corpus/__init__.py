"""Job files that are right (`good`) and wrong (`bad`), each wrong one with the diagnostics it must give."""
