"""The folder home: resources are files of a folder, agents and jobs are processes of the local machine."""
