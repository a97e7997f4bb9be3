"""What a recorded soft arm and a beam say of the soft robot's model: the study behind docs/soft_arm.md."""
