"""Reports as self-contained HTML files: to be filed, printed, sent to an auditor. All share the look of the
coordinator's pages."""
