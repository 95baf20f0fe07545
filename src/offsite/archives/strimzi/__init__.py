"""Resources of Strimzi: what its operators need to own the topics and users of a restore point."""
