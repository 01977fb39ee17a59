"""Where trainings stand on the measured map of risk. No torch here: who asks need not train anything."""
