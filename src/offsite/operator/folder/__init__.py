"""The folder home: resources as files of a folder, agents and jobs as processes of this machine."""
