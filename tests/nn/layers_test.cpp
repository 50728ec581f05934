// Layers compute the same as the functions of core/nn/functional.h.
#include "core/autograd/functions.h"
#include "core/autograd/leaf_gradients.h"
#include "core/autograd/tape.h"
#include "core/nn/layers.h"
#include "tests/nn/golden.h"

#include <doctest/doctest.h>

using namespace booster;
using namespace booster::testing;

namespace {

using Names = std::vector<std::string>;

Names names_of(const std::vector<NamedTensor>& tensors) {
  Names names;
  for (const auto& [name, x] : tensors) names.push_back(name);
  return names;
}

}  // namespace

TEST_CASE("layers compute what their functions compute") {
  const Tensor image = hashed({2, 4, 6, 6}, 1), rows = hashed({5, 4}, 2);
  const auto same = [](const Tensor& a, const Tensor& b) {
    CHECK(a.shape() == b.shape());
    CHECK(a.to_vector<float>() == b.to_vector<float>());
  };
  Conv2d conv(4, 6, {3, 2}, {.stride = 2, .padding = 1, .groups = 2, .bias = false});
  same(conv(image), conv2d(image, conv.weight, {}, {.stride = 2, .padding = 1, .groups = 2}));
  same(LayerNorm(4)(rows), layer_norm(rows, {4}));
  same(LayerNorm(Shape{6, 6}, {.affine = false})(image), layer_norm(image, {6, 6}));
  same(GroupNorm(2, 4)(image), group_norm(image, 2));
  same(ReLU()(rows), relu(rows));
  same(SiLU()(rows), silu(rows));
  same(Tanh()(rows), tanh(rows));
  same(Sigmoid()(rows), sigmoid(rows));
  same(GELU()(rows), gelu(rows));
  same(GELU(GeluForm::tanh)(rows), gelu_tanh(rows));
  same(Softmax(0)(rows), softmax(rows, 0));
  same(MaxPool2d(2)(image), max_pool2d(image, 2));
  same(AvgPool2d(3, {.stride = 1})(image), avg_pool2d(image, 3, {.stride = 1}));
  same(AdaptiveAvgPool2d({2, 3})(image), adaptive_avg_pool2d(image, {2, 3}));
  same(Flatten()(image), reshape(image, {2, 144}));
  same(DropPath(0)(rows), rows);
  same(LeakyReLU(0.3)(rows), leaky_relu(rows, 0.3));
  same(ELU(1.5)(rows), elu(rows, 1.5));
  same(PixelShuffle(2)(image), pixel_shuffle(image, 2));
  const Tensor index = from_vector<int64_t>({1, 0, 2}, {3});
  Embedding table(3, 4, 2);
  same(table(index), embedding(index, table.weight));
  CHECK(table(index).to_vector<float>()[8] == 0);
}

TEST_CASE("layers with weights and options compute what their functions compute") {
  const Tensor image = hashed({2, 4, 6, 6}, 1), signal = hashed({2, 4, 9}, 3);
  const auto same = [](const Tensor& a, const Tensor& b) {
    CHECK(a.shape() == b.shape());
    CHECK(a.to_vector<float>() == b.to_vector<float>());
  };
  ConvTranspose2d up(4, 6, {3, 2}, {.stride = 2, .padding = 1, .output_padding = 1, .groups = 2});
  CHECK(up.weight.shape() == Shape{4, 3, 3, 2});
  same(up(image), conv_transpose2d(image, up.weight, up.bias,
                                   {.stride = 2, .padding = 1, .output_padding = 1, .groups = 2}));
  const Conv1dOptions options{.stride = 2, .padding = 1, .dilation = 2, .groups = 2};
  Conv1d line(4, 6, 3, options), bare(4, 6, 3, options, false);
  CHECK(line.weight.shape() == Shape{6, 2, 3});
  same(line(signal), conv1d(signal, line.weight, line.bias, options));
  CHECK_FALSE(bare.bias.defined());
  same(bare(signal), conv1d(signal, bare.weight, {}, options));
  RMSNorm norm(6, {.eps = 0.1}), plain(Shape{6, 6}, {.affine = false});
  norm.weight.detach().fill_(2);
  same(norm(image), rms_norm(image, {6}, norm.weight, 0.1));
  CHECK_FALSE(plain.weight.defined());
  same(plain(image), rms_norm(image, {6, 6}));
  same(Upsample(2)(image), interpolate_nearest(image, {12, 12}));
  same(Upsample({.size = Size2d(5, 9), .mode = "bilinear", .align_corners = true})(image),
       interpolate(image, {5, 9}, {.align_corners = true}));
  same(Upsample({.scale_factor = Scale2d(1.4, 0.5), .mode = "bicubic"})(image),
       interpolate(image, {.mode = "bicubic", .scale_factor = Scale2d(1.4, 0.5)}));
  CHECK_THROWS_WITH_AS(Upsample(UpsampleOptions{}), doctest::Contains("got none"), Error);
  CHECK_THROWS_WITH_AS(Upsample({.size = 3, .scale_factor = 2}), doctest::Contains("both"), Error);
}

TEST_CASE("batch norm of rows and signals is that of images of one line") {
  const Tensor rows = hashed({5, 3}, 1), signal = hashed({4, 3, 7}, 2);
  BatchNorm1d one(3), of_signal(3);
  BatchNorm2d two(3), of_image(3);
  const auto same = [](const Tensor& a, const Tensor& b) {
    CHECK(largest_error(a.to_vector<double>(), b.to_vector<double>()) < 1e-6);
  };
  same(one(rows), two(reshape(rows, {5, 3, 1, 1})));
  same(one.running_var, two.running_var);
  same(of_signal(signal), of_image(unsqueeze(signal, 2)));
  of_signal.eval();
  of_image.eval();
  same(of_signal(signal), of_image(unsqueeze(signal, 2)));
  CHECK(of_signal(signal).shape() == signal.shape());
  CHECK_THROWS_AS(of_signal(hashed({4, 3, 2, 2}, 1)), Error);
}

TEST_CASE("batch norm learns running statistics in training and uses them in eval") {
  BatchNorm2d norm(3, {.momentum = 0.5});
  const Tensor x = hashed({4, 3, 2, 2}, 1, 1, 3);
  norm(x);
  const Tensor mean = booster::mean(x, {0, 2, 3}), var = booster::var(x, {0, 2, 3});
  CHECK(largest_error(norm.running_mean.to_vector<double>(), (mean * 0.5).to_vector<double>()) <
        1e-6);
  CHECK(largest_error(norm.running_var.to_vector<double>(), (var * 0.5 + 0.5).to_vector<double>()) <
        1e-6);
  CHECK(norm.num_batches_tracked.item() == 1);
  norm.eval();
  const auto before = norm.running_mean.to_vector<float>();
  const Tensor y = norm(x);
  CHECK(norm.running_mean.to_vector<float>() == before);
  CHECK(y.to_vector<float>()[0] ==
        doctest::Approx((x.to_vector<float>()[0] - before[0]) /
                        std::sqrt(norm.running_var.to_vector<float>()[0] + 1e-5)));
}

TEST_CASE("batch norm without a momentum averages over all batches: PyTorch 2.15's numbers") {
  BatchNorm1d norm(2, {.momentum = std::nullopt});
  const std::vector<double> means[] = {{2, 3}, {1.8333333, 3.3333333}, {2.4444444, 2.8888889}},
                            vars[] = {{4, 4}, {4.1666667, 4.1666667}, {6.2222222, 3.1111111}};
  for (int k = 1; k <= 3; ++k) {
    std::vector<float> numbers;
    for (int i = 0; i < 6; ++i) numbers.push_back(static_cast<float>(i * k % 7));
    norm(from_vector(numbers, {3, 2}));
    CHECK(largest_error(norm.running_mean.to_vector<double>(), means[k - 1]) < 1e-6);
    CHECK(largest_error(norm.running_var.to_vector<double>(), vars[k - 1]) < 1e-6);
  }
  norm.eval();
  CHECK(largest_error(norm(ones({1, 2})).to_vector<double>(), {-0.57906556, -1.0708976}) < 1e-6);
  CHECK(norm.num_batches_tracked.item() == 3);
  CHECK(norm.options() == "eps=1e-05, momentum=None");
}

TEST_CASE("batch norm learns nothing from an empty batch, as in PyTorch") {
  for (const bool training : {true, false}) {
    CAPTURE(training);
    BatchNorm2d norm(3);
    norm.train(training);
    const Tensor x = zeros({2, 3, 0, 4}).requires_grad_();
    const Tensor y = norm(x);
    CHECK(y.shape() == x.shape());
    backward(y, {.grad = zeros(y.shape())});
    CHECK(norm.running_mean.to_vector<double>() == std::vector<double>{0, 0, 0});
    CHECK(norm.running_var.to_vector<double>() == std::vector<double>{1, 1, 1});
    CHECK(norm.num_batches_tracked.item() == training);
    for (const Tensor& parameter : {norm.weight, norm.bias})
      CHECK(parameter.grad().to_vector<double>() == std::vector<double>{0, 0, 0});
    CHECK(x.grad().shape() == x.shape());
  }
}

TEST_CASE("a padding row may be counted from the end, as in PyTorch") {
  const Tensor rows = from_vector<int64_t>({3, 2, 3}, {3});
  Embedding layer(4, 2, -1);
  CHECK(layer.weight[3].to_vector<double>() == std::vector<double>{0, 0});
  CHECK(layer.weight[2].norm().item() > 0);
  const std::vector<double> wanted = {0, 0, 0, 0, 1, 1, 0, 0};
  layer(rows).sum().backward();
  CHECK(layer.weight.grad().to_vector<double>() == wanted);
  const Tensor table = ones({4, 2}).requires_grad_();
  embedding(rows, table, -1).sum().backward();
  CHECK(table.grad().to_vector<double>() == wanted);
  for (const int64_t outside : {-5, 4}) {
    CHECK_THROWS_WITH_AS(Embedding(4, 2, outside), doctest::Contains("want -4 to 3"), Error);
    CHECK_THROWS_WITH_AS(embedding(rows, table, outside), doctest::Contains("want -4 to 3"), Error);
  }
}

// Expected values are PyTorch's.
TEST_CASE("with ceil_mode a window may be larger than its image") {
  const Tensor x = from_vector<float>({1, 2, 3, 4, 5}, {1, 1, 1, 5});
  const PoolOptions largest = {
      .stride = Size2d(4, 2), .padding = {2, 0}, .dilation = {2, 1}, .ceil_mode = true};
  CHECK(max_pool2d(x, {4, 2}, largest).to_vector<float>() == std::vector<float>{2, 4, 5});
  const Tensor line = from_vector<float>({1, 2, 6}, {1, 1, 1, 3}).requires_grad_();
  for (const bool counts : {true, false}) {
    CAPTURE(counts);
    clear_grad(line);
    const Tensor y = avg_pool2d(
        line, 4, {.stride = 2, .padding = 1, .count_padding = counts, .ceil_mode = true});
    using Floats = std::vector<float>;
    CHECK(y.to_vector<float>() == (counts ? Floats{0.75F, 8 / 9.F} : Floats{3, 4}));
    y.sum().backward();
    const Floats slope = line.grad().to_vector<float>();
    CHECK(slope[0] == doctest::Approx(counts ? 1 / 12. : 1 / 3.));
    CHECK(slope[1] == doctest::Approx(counts ? 7 / 36. : 5 / 6.));
  }
  CHECK_THROWS_WITH_AS(avg_pool2d(line, 4, {.stride = 1, .padding = 1, .ceil_mode = true}),
                       doctest::Contains("window is larger than the image"), Error);
}

TEST_CASE("transposed convolutions have PyTorch's names, shapes and functions") {
  const Tensor signal = hashed({2, 4, 7}, 1), volume = hashed({2, 4, 3, 5, 4}, 2);
  ConvTranspose1d line(4, 6, 3, {.stride = 2, .padding = 1, .groups = 2}, 1);
  CHECK(names_of(line.parameters()) == Names{"weight", "bias"});
  CHECK(line.weight.shape() == Shape{4, 3, 3});
  CHECK(
      line(signal).to_vector<float>() ==
      conv_transpose1d(signal, line.weight, line.bias, {.stride = 2, .padding = 1, .groups = 2}, 1)
          .to_vector<float>());
  ConvTranspose3d block(4, 6, {2, 3, 1}, {.stride = {2, 1, 3}, .groups = 2}, {1, 0, 2}, false);
  CHECK(names_of(block.parameters()) == Names{"weight"});
  CHECK(block.weight.shape() == Shape{4, 3, 2, 3, 1});
  CHECK(block(volume).shape() == Shape{2, 6, 7, 7, 12});
  CHECK(block.options() ==
        "4, 6, kernel=(2, 3, 1), stride=(2, 1, 3), padding=(0, 0, 0), bias=false");
  CHECK_THROWS_WITH_AS(ConvTranspose3d(4, 6, 3, {.groups = 4}),
                       doctest::Contains("ConvTranspose3d: groups do not divide"), Error);
}

TEST_CASE("a ModuleDict finds its modules by name, and saves them under it") {
  ModuleDict dict = {{"conv", Conv1d(2, 3, 3)}, {"head", Linear(3, 4)}};
  CHECK(dict.size() == 2);
  CHECK(dict.names() == Names{"conv", "head"});
  CHECK(names_of(dict.parameters()) ==
        Names{"conv.weight", "conv.bias", "head.weight", "head.bias"});
  CHECK(dict["head"](zeros({2, 3})).shape() == Shape{2, 4});
  dict.insert("act", ReLU());
  CHECK(dict.contains("act"));
  CHECK_FALSE(dict.contains("heads"));
  CHECK_THROWS_WITH_AS(dict["haed"], doctest::Contains("did you mean head?"), Error);
  CHECK_THROWS_AS(dict.insert("head", ReLU()), Error);
  CHECK_THROWS_WITH_AS(dict(zeros({2, 3})), doctest::Contains("it has no forward"), Error);
}

TEST_CASE("layers of functions compute what their functions do, in both modes") {
  const Tensor x = hashed({2, 4, 6}, 1, -2, 2), image = hashed({2, 4, 6, 6}, 2, -2, 2);
  const auto same = [](Model layer, const Tensor& input, const Tensor& want) {
    CAPTURE(layer->kind());
    CHECK(layer(input).to_vector<float>() == want.to_vector<float>());
  };
  same(Mish(), x, mish(x));
  same(Hardswish(), x, hardswish(x));
  same(CELU(0.5), x, celu(x, 0.5));
  same(GLU(1), x, glu(x, 1));
  same(LogSoftmax(), x, log_softmax(x, -1));
  same(Pad({1, 2}, "circular"), x, pad(x, {1, 2}, "circular"));
  same(Unflatten(1, {2, -1}), x, reshape(x, {2, 2, 2, 6}));
  same(MaxPool1d(2), x, max_pool1d(x, 2));
  same(AdaptiveMaxPool2d(3), image, adaptive_max_pool2d(image, 3));
  same(Unfold(2, {.stride = 2}), image, unfold(image, 2, {.stride = 2}));
  same(LocalResponseNorm(3), image, local_response_norm(image, 3));
  same(InstanceNorm(4), image, instance_norm(image));
  same(PReLU(4, 0.1), image, where(greater(image, 0), image, image * 0.1));
  same(Sequential({ReLU6(), Softsign()}), x, softsign(relu6(x)));
  Model noisy = RReLU(0.2, 0.4);
  CHECK(noisy(x).to_vector<float>() != leaky_relu(x, 0.3).to_vector<float>());
  noisy.eval();
  same(noisy, x, leaky_relu(x, 0.3F));
  CHECK(Model(MaxPool1d(3, {.stride = 2})).to_string().find("kernel=3, stride=2") !=
        std::string::npos);
}

TEST_CASE("a module holds a layer of a function like any other") {
  struct Net : Module {
    Net() : Module("Net") {}
    MaxPool1d& pool = add<MaxPool1d>("pool", 2, {.stride = 1});
    Mish& act = add<Mish>("act");
    Tensor forward(const Tensor& x) override { return act(pool(x)); }
  };
  const Tensor x = hashed({2, 4, 6}, 1, -2, 2);
  CHECK(Model(Net())(x).to_vector<float>() ==
        mish(max_pool1d(x, 2, {.stride = 1})).to_vector<float>());
}

TEST_CASE("layers of volumes have PyTorch's names and forms") {
  Model conv = Conv3d(2, 4, {1, 2, 3}, {.groups = 2});
  CHECK(conv.parameters()[0].tensor.shape() == Shape{4, 1, 1, 2, 3});
  CHECK(conv(hashed({2, 2, 3, 4, 5}, 1)).shape() == Shape{2, 4, 3, 3, 3});
  Model norm = BatchNorm3d(2);
  CHECK(norm(hashed({2, 2, 3, 4, 5}, 1)).shape() == Shape{2, 2, 3, 4, 5});
  CHECK_THROWS_WITH_AS(norm(zeros({2, 2, 3, 4})), doctest::Contains("want (n, c, d, h, w)"), Error);
  CHECK(Model(LayerNorm(4, {.bias = false})).parameters().size() == 1);
}
