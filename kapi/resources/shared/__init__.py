"""What several resources share: rules, metadata, selectors, pod templates, volumes."""
