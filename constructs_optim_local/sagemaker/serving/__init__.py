"""Model servers as processes of this machine: started, checked, invoked and ended."""
