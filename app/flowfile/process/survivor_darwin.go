package process

// endSurvivors does nothing here: the environments of other processes cannot be read.
func endSurvivors(string) error { return nil }
