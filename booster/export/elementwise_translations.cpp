// Elementwise ops. ONNX's operators neither mix element types nor take masks as numbers, so
// arguments are converted first.
#include "booster/export/translations.h"

#include <cmath>
#include <numbers>

namespace booster::onnx {

using Value = Graph::Value;

Value gelu_of(Translator& t, const Value& x, bool tanh_form) {
  const auto number = [&](double value) { return t.graph().number(value); };
  Value wave;
  if (tanh_form) {  // Hendrycks and Gimpel, 2016
    const Value cube = t.add("Mul", {t.add("Mul", {x, x}), x});
    const Value sum = t.add("Add", {x, t.add("Mul", {cube, number(0.044715)})});
    wave = t.add("Tanh", {t.add("Mul", {sum, number(std::sqrt(2 / std::numbers::pi))})});
  } else {
    wave = t.add("Erf", {t.add("Mul", {x, number(1 / std::numbers::sqrt2)})});
  }
  return t.add("Mul", {t.add("Mul", {x, number(0.5)}), t.add("Add", {wave, number(1)})});
}

namespace {

// Returns the argument of a unary op in its result's element type.
Value argument(Translator& t) { return t.input_as(0, t.result_kind()); }

Translation one_operator(const char* operation) {
  return [=](Translator& t) { t.result(t.add(operation, {argument(t)})); };
}

void identity(Translator& t) { t.result(argument(t)); }

// Translates rounding; integers stay unchanged.
Translation rounding(const char* operation) {
  return [=](Translator& t) {
    const Value x = argument(t);
    t.result(t.result_kind() == Kind::floating ? t.add(operation, {x}) : x);
  };
}

void square(Translator& t) {
  const Value x = argument(t);
  t.result(t.add("Mul", {x, x}));
}

void rsqrt(Translator& t) { t.result(t.add("Reciprocal", {t.add("Sqrt", {argument(t)})})); }

// Translates e^x - 1. Near 0 it would lose digits, so it uses 2 w / (1 - w) with w = tanh(x / 2).
void expm1(Translator& t) {
  const auto number = [&](double value) { return t.graph().number(value); };
  const Value x = argument(t);
  const Value wave = t.add("Tanh", {t.add("Mul", {x, number(0.5)})});
  const Value near =
      t.add("Div", {t.add("Mul", {wave, number(2)}), t.add("Sub", {number(1), wave})});
  const Value far = t.add("Sub", {t.add("Exp", {x}), number(1)});
  t.result(t.add("Where", {t.add("Less", {t.add("Abs", {x}), number(1)}), near, far}));
}

void relu(Translator& t) {
  const Value x = argument(t);
  const Kind kind = t.result_kind();
  t.result(kind == Kind::floating ? t.add("Relu", {x}) : t.add("Max", {x, t.constant(0, kind)}));
}

void silu(Translator& t) {
  const Value x = argument(t);
  t.result(t.add("Mul", {x, t.add("Sigmoid", {x})}));
}

void swiglu(Translator& t) {
  const Value gate = t.input_as(0, t.result_kind()), up = t.input_as(1, t.result_kind());
  t.result(t.add("Mul", {t.add("Mul", {gate, t.add("Sigmoid", {gate})}), up}));
}

// Returns both operands in one element type; one may be a number.
std::vector<Value> operands(Translator& t, Kind kind) {
  const Value x = t.input_as(0, kind);
  if (!t.has_attribute("number")) return {x, t.input_as(1, kind)};
  const Value number = t.constant(t.number("number"), kind);
  return t.integer("number_first") ? std::vector{number, x} : std::vector{x, number};
}

// Translates leaky_relu(x, slope) and prelu, whose slopes are a tensor.
void leaky_relu(Translator& t) {
  const std::vector<Value> both = operands(t, t.result_kind());
  const Value is_high = t.add("Greater", {both[0], t.constant(0, t.result_kind())});
  t.result(t.add("Where", {is_high, both[0], t.add("Mul", both)}));
}

// Translates elu(x, alpha) with Elu, which computes e^x - 1 to the last digits; alpha scales it.
void elu(Translator& t) {
  const std::vector<Value> both = operands(t, Kind::floating);
  const Value is_high = t.add("Greater", {both[0], t.constant(0, Kind::floating)});
  const Value low = t.add("Mul", {t.add("Elu", {both[0]}), both[1]});
  t.result(t.add("Where", {is_high, both[0], low}));
}

Translation gelu(bool tanh_form) {
  return [=](Translator& t) { t.result(gelu_of(t, argument(t), tanh_form)); };
}

// Translates sign; gives 0 for a nan, which ONNX leaves open.
void sign(Translator& t) {
  const Kind kind = t.result_kind();
  if (kind == Kind::truth) return identity(t);
  const Value x = argument(t), zero = t.constant(0, kind);
  t.result(t.add("Sub", {t.converted(t.add("Greater", {x, zero}), Kind::truth, kind),
                         t.converted(t.add("Less", {x, zero}), Kind::truth, kind)}));
}

Translation arithmetic(const char* operation) {
  return [=](Translator& t) {
    if (t.result_kind() == Kind::truth) t.refuse("no operator for masks");
    t.result(t.add(operation, operands(t, t.result_kind())));
  };
}

// Translates arithmetic. Masks stand for 0 and 1: a product is true where both are.
Translation arithmetic(const char* operation, const char* of_masks) {
  return [=](Translator& t) {
    const Kind kind = t.result_kind();
    t.result(t.add(kind == Kind::truth ? of_masks : operation, operands(t, kind)));
  };
}

Value comparison(Translator& t, const char* operation) {
  const bool has_floats = t.kind(0) == Kind::floating || t.kind(1) == Kind::floating;
  return t.add(operation, operands(t, has_floats ? Kind::floating : Kind::integer));
}

Translation compare(const char* operation) {
  return [=](Translator& t) { t.result(comparison(t, operation)); };
}

void not_equal(Translator& t) { t.result(t.add("Not", {comparison(t, "Equal")})); }

void where(Translator& t) {
  const Kind kind = t.result_kind();
  t.result(t.add("Where", {t.input(0), t.input_as(1, kind), t.input_as(2, kind)}));
}

}  // namespace

std::vector<TranslationRow> elementwise_translations() {
  return {
      {"neg", one_operator("Neg")},
      {"abs", one_operator("Abs")},
      {"square", square},
      {"exp", one_operator("Exp")},
      {"expm1", expm1},
      {"log", one_operator("Log")},
      {"sqrt", one_operator("Sqrt")},
      {"rsqrt", rsqrt},
      {"reciprocal", one_operator("Reciprocal")},
      {"sin", one_operator("Sin")},
      {"cos", one_operator("Cos")},
      {"erf", one_operator("Erf")},
      {"tanh", one_operator("Tanh")},
      {"sigmoid", one_operator("Sigmoid")},
      {"softplus", one_operator("Softplus")},
      {"relu", relu},
      {"silu", silu},
      {"gelu", gelu(false)},
      {"gelu_tanh", gelu(true)},
      {"sign", sign},
      {"floor", rounding("Floor")},
      {"round", rounding("Round")},
      {"add", arithmetic("Add", "Or")},
      {"sub", arithmetic("Sub")},
      {"mul", arithmetic("Mul", "And")},
      {"div", arithmetic("Div")},
      {"pow", arithmetic("Pow")},
      {"maximum", arithmetic("Max", "Or")},
      {"minimum", arithmetic("Min", "And")},
      {"leaky_relu", leaky_relu},
      {"elu", elu},
      {"swiglu", swiglu},
      {"equal", compare("Equal")},
      {"not_equal", not_equal},
      {"less", compare("Less")},
      {"less_equal", compare("LessOrEqual")},
      {"greater", compare("Greater")},
      {"greater_equal", compare("GreaterOrEqual")},
      {"where", where},
      {"cast", identity},
  };
}

}  // namespace booster::onnx
