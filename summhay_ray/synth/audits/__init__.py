"""Draws a sample of a synthesis for people, and reads what they say (Tables 4 and 5). A sub-room of synth."""
