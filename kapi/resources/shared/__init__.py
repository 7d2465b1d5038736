"""What several resources share: rules, columns, printing."""
