"""A weather service with one tool: the smallest environment there is."""

from gymd.sdk import ResourcesServer, tool


class Weather(ResourcesServer):
    """One tool, and every rollout is worth 1.0."""

    @tool
    async def get_weather(self, city: str) -> dict[str, str]:
        """Get the weather of a city."""
        return {"city": city, "weather_description": f"The weather in {city} is cold."}

    async def verify(self) -> float:
        """Everything is worth 1.0."""
        return 1.0
