// Package overload is the overload manager (OV): monitors say how much of a
// resource is used, triggers make of that how far an action is taken, and the
// parts of the proxy take it.
//
// The rules are pure ([rules]): pressures in, levels of actions out. A goroutine
// of the configuration's side asks the monitors ([Manager.Run]). Workers look at
// one atomic number ([Level]) or are told by a posted function.
package overload
