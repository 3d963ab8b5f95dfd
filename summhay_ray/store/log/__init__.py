"""The answers log and the records of money. A sub-room of the store."""
