"""Small programs: copy, booth, process_monitor."""
