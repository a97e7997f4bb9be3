"""Commands of `onboard-estimation`, one module each. They import what they need when they run: help is quick."""
