package alltypes

//go:generate go run ./gen
