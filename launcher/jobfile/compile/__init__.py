"""Compile files to launches: targets, matrix, variables, references, validation, AppDefs."""
