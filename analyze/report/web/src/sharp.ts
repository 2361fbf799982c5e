// uPlot draws with as many pixels as the screen has. A page that is printed needs more than most screens:
// this makes the plots' canvases twice as fine there. It must run before uPlot is loaded.

const own = Object.getOwnPropertyDescriptor(window, "devicePixelRatio");
const real = (): number => {
  const value: unknown = own?.get ? own.get.call(window) : own?.value;
  return typeof value === "number" ? value : 1;
};

Object.defineProperty(window, "devicePixelRatio", { configurable: true, get: () => Math.max(real(), 2) });
