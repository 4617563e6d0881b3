//! RMSNorm: `y = x / sqrt(mean(x², last dimension) + epsilon) ⊙ weight`
//! (Zhang and Sennrich, 2019, arXiv 1910.07467).
//!
//! # Shapes
//!
//! - x, y, and their gradients: `[..., hidden size]`, of any rank from one up;
//! - weight and its gradient: `[hidden size]`;
//! - rstd, the reciprocal of each row's root mean square: `[..., 1]`.
//!
//! All share one dtype of `f32`, `f16`, `bf16` and `f64`, as the device has them, except that rstd is
//! `f32` beside the half-precision ones, as all sums are. Callers have checked the shapes; only debug
//! builds check again. Any strides will do (rows whose elements do not lie together are copied first),
//! and any dimension may be zero; no input is written to.
//!
//! # Bytes moved
//!
//! For `n` elements of `s` bytes, in rows of `h`:
//! - forward must read x and write y: `2·n·s`. It does, with one pass over each row held in registers.
//!   Rows too long for that (see `rows`) are read twice, `3·n·s`, the second time from cache if it is
//!   large enough.
//! - backward must read x and the gradient and write dx: `3·n·s`. It does, plus one row of partial sums
//!   of dw per cube, written and read once: `8·h` bytes for each of the cubes that run at a time.
//!   Rows too long to hold are read twice, and their partial sums kept in memory: `5·n·s`, and `8·n`
//!   for dw.

use burn_backend::cubecl::dtype_to_storage_type;
use burn_backend::{DType, Shape, TensorMetadata};
use burn_cubecl::CubeDevice;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::ops::numeric::{empty_device_contiguous_dtype, zeros};
use burn_cubecl::tensor::CubeTensor;
use cubecl::features::TypeUsage;
use cubecl::prelude::*;

use crate::error::Error;
use crate::rows::{
    Cubes, RowDevice, RowLaunch, RowLayout, RowShape, Tuning, in_row, last_repeated, load_tile,
    row_layout, row_sum, row_tiles, sum_parts, sum_rows_of_cube, tile_index, vector_size,
};

/// Whether the device runs these kernels on tensors of `dtype`.
pub fn supports(device: &CubeDevice, dtype: DType) -> bool {
    client_supports(&device.client(), dtype)
}

fn client_supports(client: &Client, dtype: DType) -> bool {
    let Some(sum) = sum_dtype(dtype) else {
        return false;
    };
    let usage = |dtype| {
        client
            .properties()
            .features
            .type_usage(dtype_to_storage_type(dtype))
    };
    // CubeCL's CPU runtime lists bf16, but its compiler emits a call that nothing defines to round to it.
    if dtype == DType::BF16 && client.properties().hardware.num_cpu_cores.is_some() {
        return false;
    }
    let stored = usage(dtype);
    stored.contains(TypeUsage::Buffer)
        && stored.contains(TypeUsage::Conversion)
        && usage(sum).contains(TypeUsage::Buffer)
        && usage(sum).contains(TypeUsage::Arithmetic)
}

/// The dtype of sums and of rstd, if `dtype` is one that the kernels are written for.
fn sum_dtype(dtype: DType) -> Option<DType> {
    match dtype {
        DType::F32 | DType::F16 | DType::BF16 => Some(DType::F32),
        DType::F64 => Some(DType::F64),
        _ => None,
    }
}

/// RMSNorm of `x`.
///
/// # Errors
///
/// If the device lacks the dtype, if the tensors' dtypes differ, or if `x` has more elements than the
/// device's kernels can number.
pub fn rms_norm(
    x: CubeTensor,
    weight: Option<CubeTensor>,
    epsilon: f64,
) -> Result<CubeTensor, Error> {
    forward(x, weight, epsilon, false, &Tuning::default()).map(|(y, _)| y)
}

/// RMSNorm of `x`, and the `rstd` that [`rms_norm_backward`] asks for.
///
/// # Errors
///
/// As [`rms_norm`].
pub fn rms_norm_saving(
    x: CubeTensor,
    weight: Option<CubeTensor>,
    epsilon: f64,
) -> Result<(CubeTensor, CubeTensor), Error> {
    let (y, rstd) = forward(x, weight, epsilon, true, &Tuning::default())?;
    Ok((y, rstd.expect("saved, as was asked")))
}

/// [`rms_norm_saving`], or [`rms_norm`] if not `saving`, by this tuning.
pub fn forward(
    x: CubeTensor,
    weight: Option<CubeTensor>,
    epsilon: f64,
    saving: bool,
    tuning: &Tuning,
) -> Result<(CubeTensor, Option<CubeTensor>), Error> {
    let problem = Problem::new(&x)?;
    let dtype = x.dtype;
    problem.check_dtype("weight", weight.as_ref(), dtype)?;

    let x = rows_together(x);
    let weight = weight.map(into_contiguous);
    debug_assert!(
        weight
            .as_ref()
            .is_none_or(|weight| *weight.meta.shape() == problem.weight_shape())
    );

    let y = problem.empty(problem.shape.clone(), dtype);
    let rstd = saving.then(|| problem.empty(problem.rstd_shape(), problem.sum));
    if problem.count == 0 {
        return Ok((y, rstd));
    }
    if problem.len == 0 {
        // An empty row counts as one of zeros.
        let rstd = rstd.map(|rstd| {
            let value =
                InputScalar::new(epsilon.sqrt().recip(), dtype_to_storage_type(problem.sum));
            burn_cubecl::ops::numeric::full_device_dtype(
                rstd.client.clone(),
                rstd.shape(),
                rstd.device.clone(),
                value,
                rstd.dtype,
            )
        });
        return Ok((y, rstd));
    }

    let sum = dtype_to_storage_type(problem.sum);
    let tensors: Vec<&CubeTensor> = [&x, &y].into_iter().chain(&weight).collect();
    let width = vector_size(&problem.client, &tensors);
    let vectors = problem.len / width;
    let vector_bytes = width * dtype.size();
    let launch = RowLaunch::new(
        &RowDevice::of(&problem.client),
        tuning,
        problem.count,
        vectors,
        vector_bytes,
        vector_bytes,
        Cubes::PerRows,
    );
    let address_type = problem.address_type(&tensors)?;
    let layout = row_layout(&x, width);

    // SAFETY: the kernel reads and writes at `layout.start(row) + index` and `row * vectors + index`,
    // with `row < count` and `index < vectors`: inside x, which has that layout, and inside y and rstd,
    // made for it. Its loops end.
    unsafe {
        forward_kernel::launch_unchecked(
            &problem.client,
            launch.cube_count(),
            launch.cube_dim(),
            address_type,
            width,
            x.into_buffer_arg(),
            weight.map(|weight| weight.into_buffer_arg()).into(),
            y.clone().into_buffer_arg(),
            rstd.clone().map(|rstd| rstd.into_buffer_arg()).into(),
            layout,
            problem.count,
            vectors,
            InputScalar::new(epsilon, sum),
            InputScalar::new(1.0 / problem.len as f64, sum),
            launch.shape,
            [dtype_to_storage_type(dtype), sum],
        );
    }
    Ok((y, rstd))
}

/// The gradients of [`rms_norm`] for x and weight, each only if `needed`.
///
/// With `g = grad ⊙ weight` and `x̂ = x·rstd`: `dx = rstd·(g − x̂·mean(g⊙x̂))`, and `dw = Σ grad⊙x̂` over
/// the rows, summed in an order that depends on shapes and the device alone.
///
/// # Errors
///
/// As [`rms_norm`].
pub fn rms_norm_backward(
    x: CubeTensor,
    weight: Option<CubeTensor>,
    rstd: CubeTensor,
    grad: CubeTensor,
    needed: (bool, bool),
) -> Result<(Option<CubeTensor>, Option<CubeTensor>), Error> {
    backward(x, weight, rstd, grad, needed, &Tuning::default())
}

/// [`rms_norm_backward`], by this tuning.
pub fn backward(
    x: CubeTensor,
    weight: Option<CubeTensor>,
    rstd: CubeTensor,
    grad: CubeTensor,
    needed: (bool, bool),
    tuning: &Tuning,
) -> Result<(Option<CubeTensor>, Option<CubeTensor>), Error> {
    let (dx_needed, dw_needed) = needed;
    let problem = Problem::new(&x)?;
    let dtype = x.dtype;
    problem.check_dtype("weight", weight.as_ref(), dtype)?;
    problem.check_dtype("rstd", Some(&rstd), problem.sum)?;
    problem.check_dtype("grad", Some(&grad), dtype)?;

    let x = rows_together(x);
    let grad = rows_together(grad);
    let rstd = into_contiguous(rstd);
    let weight = weight.map(into_contiguous);
    debug_assert_eq!(*grad.meta.shape(), problem.shape);
    debug_assert_eq!(*rstd.meta.shape(), problem.rstd_shape());
    debug_assert!(
        weight
            .as_ref()
            .is_none_or(|weight| *weight.meta.shape() == problem.weight_shape())
    );

    let dx = dx_needed.then(|| problem.empty(problem.shape.clone(), dtype));
    if problem.count == 0 || problem.len == 0 || !(dx_needed || dw_needed) {
        let dw = dw_needed.then(|| zeros(problem.device.clone(), problem.weight_shape(), dtype));
        return Ok((dx, dw));
    }

    let sum = dtype_to_storage_type(problem.sum);
    let tensors: Vec<&CubeTensor> = [&x, &grad].into_iter().chain(&weight).chain(&dx).collect();
    let width = vector_size(&problem.client, &tensors);
    let vectors = problem.len / width;
    let launch = RowLaunch::new(
        &RowDevice::of(&problem.client),
        tuning,
        problem.count,
        vectors,
        width * dtype.size(),
        width * (2 * dtype.size() + if dw_needed { problem.sum.size() } else { 0 }),
        if dw_needed {
            Cubes::Resident
        } else {
            Cubes::PerRows
        },
    );
    let address_type = problem.address_type(&tensors)?;
    let (x_layout, grad_layout) = (row_layout(&x, width), row_layout(&grad, width));
    let parts = launch.cubes * parts_per_cube(launch.shape);
    let parts = dw_needed.then(|| problem.empty(Shape::new([parts, problem.len]), problem.sum));

    // SAFETY: as in `forward`; and each part of `parts` is written by the units of one cube, each its
    // own columns, at `index < vectors` of the part.
    unsafe {
        backward_kernel::launch_unchecked(
            &problem.client,
            launch.cube_count(),
            launch.cube_dim(),
            address_type,
            width,
            x.into_buffer_arg(),
            weight.map(|weight| weight.into_buffer_arg()).into(),
            rstd.into_buffer_arg(),
            grad.into_buffer_arg(),
            dx.clone().map(|dx| dx.into_buffer_arg()).into(),
            parts.clone().map(|parts| parts.into_buffer_arg()).into(),
            x_layout,
            grad_layout,
            problem.count,
            vectors,
            InputScalar::new(1.0 / problem.len as f64, sum),
            launch.shape,
            [dtype_to_storage_type(dtype), sum],
        );
    }
    let dw = parts.map(|parts| {
        let dw = problem.empty(problem.weight_shape(), dtype);
        sum_parts(&parts, &dw);
        dw
    });
    Ok((dx, dw))
}

/// What both passes derive from x.
struct Problem {
    client: Client,
    device: CubeDevice,
    shape: Shape,
    /// Rows.
    count: usize,
    /// Elements of a row.
    len: usize,
    /// The dtype of sums.
    sum: DType,
}

impl Problem {
    fn new(x: &CubeTensor) -> Result<Self, Error> {
        let sum = sum_dtype(x.dtype)
            .filter(|_| client_supports(&x.client, x.dtype))
            .ok_or_else(|| Error::DTypeUnsupported {
                op: "rms_norm",
                dtype: x.dtype,
                device: device_name(&x.client),
                supported: "F32, F16, BF16 or F64",
            })?;
        let shape = x.shape();
        let outer = shape.num_dims() - 1;
        Ok(Self {
            client: x.client.clone(),
            device: x.device.clone(),
            count: shape[..outer].iter().product(),
            len: shape[outer],
            shape,
            sum,
        })
    }

    fn check_dtype(
        &self,
        input: &'static str,
        tensor: Option<&CubeTensor>,
        expected: DType,
    ) -> Result<(), Error> {
        match tensor.map(|tensor| tensor.dtype) {
            Some(found) if found != expected => Err(Error::DTypeMismatch {
                op: "rms_norm",
                input,
                expected,
                found,
            }),
            _ => Ok(()),
        }
    }

    fn weight_shape(&self) -> Shape {
        Shape::new([self.len])
    }

    fn rstd_shape(&self) -> Shape {
        let mut shape = self.shape.clone();
        let last = shape.num_dims() - 1;
        shape[last] = 1;
        shape
    }

    fn empty(&self, shape: Shape, dtype: DType) -> CubeTensor {
        empty_device_contiguous_dtype(self.client.clone(), self.device.clone(), shape, dtype)
    }

    /// The type that indexes all of these tensors, with room for a cube's step past the last row.
    fn address_type(&self, tensors: &[&CubeTensor]) -> Result<AddressType, Error> {
        let buffers = tensors
            .iter()
            .map(|tensor| tensor.handle.size() as usize / tensor.dtype.size());
        let elements = buffers.max().unwrap_or(0).max(self.count * self.len);
        let address_type = AddressType::from_len(elements.max(2 * self.count) + (1 << 16));
        if self
            .client
            .properties()
            .features
            .supports_address(address_type)
        {
            Ok(address_type)
        } else {
            Err(Error::TooLarge {
                op: "rms_norm",
                elements,
                device: device_name(&self.client),
            })
        }
    }
}

fn device_name(client: &Client) -> String {
    format!("{} ({})", client.properties().identity.name, client.name())
}

/// The tensor, with the elements of each row next to each other.
fn rows_together(tensor: CubeTensor) -> CubeTensor {
    let last = tensor.meta.num_dims() - 1;
    if tensor.meta.shape()[last] <= 1 || tensor.meta.strides()[last] == 1 {
        burn_cubecl::kernel::untile(tensor)
    } else {
        into_contiguous(tensor)
    }
}

/// Rows of partial sums that a cube writes: one, where its units hold theirs and can add them up.
fn parts_per_cube(shape: RowShape) -> usize {
    if shape.held { 1 } else { shape.rows }
}

#[cube(launch_unchecked, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
fn forward_kernel<F: Float, A: Float, N: Size>(
    x: &[Vector<F, N>],
    weight: ComptimeOption<&[Vector<F, N>]>,
    y: &mut [Vector<F, N>],
    mut rstd: ComptimeOption<&mut [A]>,
    layout: RowLayout,
    count: usize,
    vectors: usize,
    epsilon: InputScalar,
    inverse_len: InputScalar,
    #[comptime] shape: RowShape,
    #[define(F, A)] _dtypes: [ElemType; 2],
) {
    let unit = UNIT_POS as usize % shape.units;
    let tiles = row_tiles(vectors, shape);
    let mut x_tile = Array::<Vector<F, N>>::new(shape.tile);

    let mut first_row = CUBE_POS * shape.rows;
    let mut turn = 0usize;
    while first_row < count {
        // Units past the last row repeat it, to meet the others at barriers, and write nothing.
        let own_row = first_row + UNIT_POS as usize / shape.units;
        let row = last_repeated(own_row, count, shape);
        let x_start = layout.start(row);
        let y_start = row * vectors;

        let mut squares = Vector::<A, N>::new(A::new(0.0));
        #[unroll(shape.held)]
        for tile in 0..tiles {
            let first = tile * shape.tile_vectors() + unit;
            load_tile::<F, N>(x, x_start, first, vectors, &mut x_tile, shape);
            let mut sum = Vector::<A, N>::new(A::new(0.0));
            #[unroll]
            for k in 0..shape.tile {
                let value = Vector::<A, N>::cast_from(x_tile[k]);
                if comptime!(shape.full(k)) {
                    sum += value * value;
                } else if in_row(first, vectors, k, shape) {
                    sum += value * value;
                }
            }
            squares += sum;
        }

        let mean = row_sum::<A>(squares.vector_sum(), turn, shape) * inverse_len.get::<A>();
        let r = A::inverse_sqrt(mean + epsilon.get::<A>());
        let scale = Vector::<A, N>::new(r);

        if own_row == row {
            #[unroll(shape.held)]
            for tile in 0..tiles {
                let first = tile * shape.tile_vectors() + unit;
                if comptime!(!shape.held) {
                    load_tile::<F, N>(x, x_start, first, vectors, &mut x_tile, shape);
                }
                #[unroll]
                for k in 0..shape.tile {
                    let index = tile_index(first, vectors, k, shape);
                    let normal = Vector::<A, N>::cast_from(x_tile[k]) * scale;
                    let out =
                        Vector::<F, N>::cast_from(weighted::<F, A, N>(normal, &weight, index));
                    if comptime!(shape.full(k)) {
                        y[y_start + index] = out;
                    } else if in_row(first, vectors, k, shape) {
                        y[y_start + index] = out;
                    }
                }
            }
            #[comptime]
            if let ComptimeOption::Some(rstd) = &mut rstd {
                if unit == 0 {
                    rstd[row] = r;
                }
            }
        }
        first_row += CUBE_COUNT * shape.rows;
        turn += 1;
    }
}

#[cube(launch_unchecked, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
fn backward_kernel<F: Float, A: Float, N: Size>(
    x: &[Vector<F, N>],
    weight: ComptimeOption<&[Vector<F, N>]>,
    rstd: &[A],
    grad: &[Vector<F, N>],
    mut dx: ComptimeOption<&mut [Vector<F, N>]>,
    mut parts: ComptimeOption<&mut [Vector<A, N>]>,
    x_layout: RowLayout,
    grad_layout: RowLayout,
    count: usize,
    vectors: usize,
    inverse_len: InputScalar,
    #[comptime] shape: RowShape,
    #[define(F, A)] _dtypes: [ElemType; 2],
) {
    let unit = UNIT_POS as usize % shape.units;
    let row_in_cube = UNIT_POS as usize / shape.units;
    let tiles = row_tiles(vectors, shape);
    let mut x_tile = Array::<Vector<F, N>>::new(shape.tile);
    let mut grad_tile = Array::<Vector<F, N>>::new(shape.tile);

    // Sums over the rows: held, or in the part of memory where they go.
    let mut part = CUBE_POS * vectors;
    if comptime!(parts_per_cube(shape) > 1) {
        part = (CUBE_POS * shape.rows + row_in_cube) * vectors;
    }
    let mut sums = Array::<Vector<A, N>>::new(shape.tile);
    #[unroll]
    for k in 0..shape.tile {
        sums[k] = Vector::<A, N>::new(A::new(0.0));
    }
    if comptime!(!shape.held) {
        #[comptime]
        if let ComptimeOption::Some(parts) = &mut parts {
            let mut index = unit;
            while index < vectors {
                parts[part + index] = Vector::<A, N>::new(A::new(0.0));
                index += shape.units;
            }
        }
    }

    let mut first_row = CUBE_POS * shape.rows;
    let mut turn = 0usize;
    while first_row < count {
        // Units past the last row repeat it, to meet the others at barriers, and write nothing.
        let own_row = first_row + row_in_cube;
        let row = last_repeated(own_row, count, shape);
        let x_start = x_layout.start(row);
        let grad_start = grad_layout.start(row);
        let dx_start = row * vectors;
        let r = rstd[row];
        let scale = Vector::<A, N>::new(r);

        let mut projection = Vector::<A, N>::new(A::new(0.0));
        if dx.is_some() {
            let mut products = Vector::<A, N>::new(A::new(0.0));
            #[unroll(shape.held)]
            for tile in 0..tiles {
                let first = tile * shape.tile_vectors() + unit;
                load_tile::<F, N>(x, x_start, first, vectors, &mut x_tile, shape);
                load_tile::<F, N>(grad, grad_start, first, vectors, &mut grad_tile, shape);
                let mut sum = Vector::<A, N>::new(A::new(0.0));
                #[unroll]
                for k in 0..shape.tile {
                    let index = tile_index(first, vectors, k, shape);
                    let grad = Vector::<A, N>::cast_from(grad_tile[k]);
                    let g = weighted::<F, A, N>(grad, &weight, index);
                    let product = g * Vector::<A, N>::cast_from(x_tile[k]);
                    if comptime!(shape.full(k)) {
                        sum += product;
                    } else if in_row(first, vectors, k, shape) {
                        sum += product;
                    }
                }
                products += sum;
            }
            let mean = row_sum::<A>(products.vector_sum(), turn, shape) * inverse_len.get::<A>();
            projection = Vector::<A, N>::new(mean * r);
        }

        if own_row == row {
            #[unroll(shape.held)]
            for tile in 0..tiles {
                let first = tile * shape.tile_vectors() + unit;
                if comptime!(!shape.held || dx.is_none()) {
                    load_tile::<F, N>(x, x_start, first, vectors, &mut x_tile, shape);
                    load_tile::<F, N>(grad, grad_start, first, vectors, &mut grad_tile, shape);
                }
                #[unroll]
                for k in 0..shape.tile {
                    let index = tile_index(first, vectors, k, shape);
                    let normal = Vector::<A, N>::cast_from(x_tile[k]) * scale;
                    let grad = Vector::<A, N>::cast_from(grad_tile[k]);
                    #[comptime]
                    if let ComptimeOption::Some(dx) = &mut dx {
                        let g = weighted::<F, A, N>(grad, &weight, index);
                        let out = Vector::<F, N>::cast_from((g - normal * projection) * scale);
                        if comptime!(shape.full(k)) {
                            dx[dx_start + index] = out;
                        } else if in_row(first, vectors, k, shape) {
                            dx[dx_start + index] = out;
                        }
                    }
                    #[comptime]
                    if let ComptimeOption::Some(parts) = &mut parts {
                        if comptime!(shape.held) {
                            sums[k] += grad * normal;
                        } else if comptime!(shape.full(k)) {
                            parts[part + index] += grad * normal;
                        } else if in_row(first, vectors, k, shape) {
                            parts[part + index] += grad * normal;
                        }
                    }
                }
            }
        }
        first_row += CUBE_COUNT * shape.rows;
        turn += 1;
    }

    if comptime!(shape.held) {
        #[comptime]
        if let ComptimeOption::Some(parts) = &mut parts {
            if comptime!(shape.rows > 1) {
                sum_rows_of_cube::<A, N>(&mut sums, shape);
            }
            if row_in_cube == 0 {
                #[unroll]
                for k in 0..shape.tile {
                    if in_row(unit, vectors, k, shape) {
                        parts[part + tile_index(unit, vectors, k, shape)] = sums[k];
                    }
                }
            }
        }
    }
}

/// `value ⊙ weight`.
#[cube]
fn weighted<F: Float, A: Float, N: Size>(
    value: Vector<A, N>,
    weight: &ComptimeOption<&[Vector<F, N>]>,
    index: usize,
) -> Vector<A, N> {
    #[comptime]
    match weight {
        ComptimeOption::Some(weight) => value * Vector::<A, N>::cast_from(weight[index]),
        ComptimeOption::None => value,
    }
}
