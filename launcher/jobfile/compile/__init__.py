"""Files to launches: targets, matrix, variables, references, validation, AppDefs."""
