from gymd.sdk import serve
from gymservers.resources.math_advanced_calculations.server import CounterIntuitiveCalculators

serve(CounterIntuitiveCalculators)
