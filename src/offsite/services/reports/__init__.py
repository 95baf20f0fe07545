"""Reports as one HTML file that needs nothing else: to be filed, printed, sent to an auditor. All share one look, which
is also that of the coordinator's pages."""
