"""Files of other tools as job files: sbatch scripts, compose files and Procfiles. None of them is run."""
