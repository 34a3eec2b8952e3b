"""Convert files of other tools to job files: sbatch scripts, compose files, Procfiles. Runs none of them."""
