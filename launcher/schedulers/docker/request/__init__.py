"""The request to the engine, derived from an AppDef. Pure."""
