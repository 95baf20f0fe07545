"""Parts of results that several uses show: holes, branches, cuts; and the look of reports as HTML."""
