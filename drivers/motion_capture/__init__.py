"""What drivers of motion capture share: frames of rigid bodies, axes, topics and tf of the truth, their health."""
