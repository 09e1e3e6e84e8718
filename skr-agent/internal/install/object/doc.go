// Package object identifies objects by key, compares inventories, and reads single fields of objects. It is pure.
package object
