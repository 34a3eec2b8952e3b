"""The JSON Schema of job files, made from the models, for editors."""
