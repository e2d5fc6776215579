// The server's answers. A new question of a kind ends the old one.

const running = new Map();

export class ApiError extends Error {}

export async function ask(kind, path, parameters = null) {
  running.get(kind)?.abort();
  const control = new AbortController();
  running.set(kind, control);
  const query = parameters ? `?${parameters}` : "";
  let response;
  try {
    response = await fetch(`/api/${path}${query}`, { signal: control.signal });
  } catch (problem) {
    if (problem.name === "AbortError") throw problem;
    throw new ApiError("The viewer does not answer. Was it stopped?");
  }
  if (!response.ok) {
    const told = await response.json().catch(() => ({}));
    throw new ApiError(told.error ?? `The viewer answered ${response.status}.`);
  }
  return response;
}

export const askJson = async (...question) => (await ask(...question)).json();

export const isAborted = (problem) => problem?.name === "AbortError";
