"""What an engine is asked to run, derived from an AppDef. Pure."""
