"""Scale of the control plane: a load's use of each quota, and the wall that it reaches first."""
