"""Soft robot arm: constant-curvature model, learned stiffness, marginalized particle filter and unscented filter."""
