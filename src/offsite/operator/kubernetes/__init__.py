"""The Kubernetes home: resources are objects of the API server, agents are Deployments, jobs are processes of the
operator's pod."""
