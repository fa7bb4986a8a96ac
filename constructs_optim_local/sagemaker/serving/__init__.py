"""Model servers as processes of this machine: started, checked, asked and ended."""
