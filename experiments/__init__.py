"""What project.yml runs beside spaCy's own commands; one file a step."""
