"""math_advanced_calculations: sums for calculators that do not do what their names say."""
