"""What backups and restores of any size would take: unit costs measured here, a simulation of clusters, a page."""
